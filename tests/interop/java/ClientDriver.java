import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * ClientDriver NAMESRV TOPIC GROUP: a producer and a push consumer of one topic, steered by lines of standard input.
 *
 * <pre>
 *   send N [RATE]  send N more messages, at most RATE a second (0 or none: as fast as they are acknowledged)
 *   flow RATE      send until told to stop
 *   stop           send no more than what is on its way
 *   counts         say what happened so far
 *   quit           end
 * </pre>
 *
 * An empty NAMESRV leaves it to the address server (-Drocketmq.namesrv.domain).
 * With the environment variables ACCESS_KEY and SECRET_KEY both sign what they send.
 * A message is repeated under its key until the broker has acknowledged it, each vain attempt counting as a failure.
 * Answers are lines of JSON after a mark: the rest of standard output belongs to the libraries.
 */
public final class ClientDriver {
    private static final String MARK = "##";
    private static final int POLL_MS = 1000;
    private static final int ERRORS_KEPT = 5;
    private static final long RETRY_PAUSE_MS = 100;

    private final String topic;
    private final DefaultMQProducer producer;
    private final DefaultMQPushConsumer consumer;

    private final Set<String> acknowledged = ConcurrentHashMap.newKeySet();
    private final Set<String> received = ConcurrentHashMap.newKeySet();
    private final AtomicLong duplicates = new AtomicLong();
    private final AtomicLong failures = new AtomicLong();
    private final Deque<String> errors = new ArrayDeque<>();

    private final Object work = new Object();
    private long wanted;
    private long taken;
    private long finished;
    private int ratePerSecond;

    private ClientDriver(String namesrv, String topic, String group) {
        this.topic = topic;
        String accessKey = System.getenv("ACCESS_KEY");
        RPCHook signs = accessKey == null ? null
            : new AclClientRPCHook(new SessionCredentials(accessKey, System.getenv("SECRET_KEY")));
        producer = new DefaultMQProducer(group + "_producer", signs);
        consumer = new DefaultMQPushConsumer(group, signs, new AllocateMessageQueueAveragely());
        for (ClientConfig client : new ClientConfig[] {producer, consumer}) {
            if (!namesrv.isEmpty()) {
                client.setNamesrvAddr(namesrv);
            }
            client.setPollNameServerInterval(POLL_MS);
            client.setHeartbeatBrokerInterval(POLL_MS);
            client.setPersistConsumerOffsetInterval(POLL_MS);
        }
    }

    public static void main(String[] args) throws Exception {
        ClientDriver driver = new ClientDriver(args[0], args[1], args[2]);
        driver.start();
        say("{\"ready\":true}");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null && !line.equals("quit"); line = in.readLine()) {
            driver.obey(line.trim().split(" "));
        }
        Runtime.getRuntime().halt(0);
    }

    private void start() throws Exception {
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(this::receive);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        try {
            consumer.start();
        } catch (IllegalStateException busy) {
            // On a busy machine its first question to a name server may take longer than it waits. It runs by then,
            // and asks again with each poll.
            System.out.println(busy);
        }
        producer.start();
        Thread sender = new Thread(this::sendForever, "sender");
        sender.setDaemon(true);
        sender.start();
    }

    private void obey(String[] words) {
        synchronized (work) {
            switch (words[0]) {
                case "send":
                    ratePerSecond = words.length > 2 ? Integer.parseInt(words[2]) : 0;
                    wanted += Long.parseLong(words[1]);
                    break;
                case "flow":
                    ratePerSecond = Integer.parseInt(words[1]);
                    wanted = Long.MAX_VALUE;
                    break;
                case "stop":
                    wanted = taken;
                    break;
                case "counts":
                    break;
                default:
                    throw new IllegalArgumentException("no such command: " + words[0]);
            }
            work.notifyAll();
        }
        say(counts());
    }

    private void sendForever() {
        long next = System.nanoTime();
        while (true) {
            long number;
            int rate;
            synchronized (work) {
                while (taken >= wanted) {
                    try {
                        work.wait();
                    } catch (InterruptedException stop) {
                        return;
                    }
                    next = System.nanoTime();
                }
                number = taken++;
                rate = ratePerSecond;
            }
            // Of this process alone: a client that goes on for another may get its last messages again.
            sendUntilAcknowledged("m" + number + "-" + ProcessHandle.current().pid());
            synchronized (work) {
                finished++;
            }
            if (rate > 0) {
                // Time lost in failures is not made up for: a burst would hide what the pace is to show.
                next = Math.max(next + TimeUnit.SECONDS.toNanos(1) / rate, System.nanoTime());
                LockSupport.parkNanos(next - System.nanoTime());
            }
        }
    }

    private void sendUntilAcknowledged(String key) {
        while (true) {
            try {
                Message message = new Message(topic, "tag", key, key.getBytes(StandardCharsets.UTF_8));
                SendStatus status = producer.send(message).getSendStatus();
                if (status == SendStatus.SEND_OK) {
                    acknowledged.add(key);
                    return;
                }
                fail("send status " + status);
            } catch (Exception error) {
                fail(error.toString());
            }
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(RETRY_PAUSE_MS));
        }
    }

    private void receive(MessageExt message) {
        String key = message.getKeys();
        if (!key.equals(new String(message.getBody(), StandardCharsets.UTF_8))) {
            fail("body is not its own: " + key);
        } else if (!received.add(key)) {
            duplicates.incrementAndGet();
        }
    }

    private void fail(String reason) {
        failures.incrementAndGet();
        synchronized (errors) {
            errors.remove(reason);
            errors.addLast(reason);
            if (errors.size() > ERRORS_KEPT) {
                errors.removeFirst();
            }
        }
    }

    private String counts() {
        boolean sending;
        synchronized (work) {
            sending = finished < wanted;
        }
        List<String> missing = new ArrayList<>();
        for (String key : acknowledged) {
            if (!received.contains(key)) {
                missing.add(key);
            }
        }
        List<String> reasons = new ArrayList<>();
        synchronized (errors) {
            for (String error : errors) {
                reasons.add(quoted(error));
            }
        }
        return "{\"sending\":" + sending + ",\"acknowledged\":" + acknowledged.size() + ",\"received\":" + received.size()
            + ",\"missing\":" + missing.size() + ",\"duplicates\":" + duplicates + ",\"failures\":" + failures
            + ",\"errors\":[" + String.join(",", reasons) + "]}";
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }

    private static void say(String json) {
        System.out.println(MARK + json);
        System.out.flush();
    }
}
