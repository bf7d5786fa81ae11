import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * GrpcDriver PROXY TOPIC GROUP: a producer and a push consumer of one topic over gRPC, as ClientDriver is one over
 * remoting. It knows the commands `send N` and `counts`; answers are lines of JSON after a mark.
 */
public final class GrpcDriver {
    private static final String MARK = "##";
    private static final long RETRY_PAUSE_MS = 100;
    // It gives up 3 s after its start by default, which a proxy that has just started on a busy machine may need.
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final ClientServiceProvider provider = ClientServiceProvider.loadService();
    private final String topic;
    private final Producer producer;

    private final Set<String> acknowledged = ConcurrentHashMap.newKeySet();
    private final Set<String> received = ConcurrentHashMap.newKeySet();
    private final AtomicLong duplicates = new AtomicLong();
    private final AtomicLong failures = new AtomicLong();
    private volatile String error = "";
    private volatile long wanted;

    private GrpcDriver(String proxy, String topic, String group) throws Exception {
        this.topic = topic;
        ClientConfiguration configuration = ClientConfiguration.newBuilder()
            .setEndpoints(proxy).enableSsl(false).setRequestTimeout(PATIENCE).build();
        producer = provider.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build();
        provider.newPushConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(group)
            .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL))
            .setMessageListener(this::receive)
            .build();
    }

    public static void main(String[] args) throws Exception {
        GrpcDriver driver = new GrpcDriver(args[0], args[1], args[2]);
        say("{\"ready\":true}");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.trim().split(" ");
            if (words[0].equals("send")) {
                driver.wanted += Long.parseLong(words[1]);
                Thread sender = new Thread(driver::sendAll, "sender");
                sender.setDaemon(true);
                sender.start();
            }
            say(driver.counts());
        }
        Runtime.getRuntime().halt(0);
    }

    private synchronized void sendAll() {
        while (acknowledged.size() < wanted) {
            String key = "m" + acknowledged.size();
            try {
                producer.send(provider.newMessageBuilder()
                    .setTopic(topic).setKeys(key).setBody(key.getBytes(StandardCharsets.UTF_8)).build());
                acknowledged.add(key);
            } catch (Exception reason) {
                fail(reason.toString());
                try {
                    Thread.sleep(RETRY_PAUSE_MS);
                } catch (InterruptedException stop) {
                    return;
                }
            }
        }
    }

    private ConsumeResult receive(MessageView message) {
        String key = message.getKeys().iterator().next();
        if (!key.equals(StandardCharsets.UTF_8.decode(message.getBody()).toString())) {
            fail("body is not its own: " + key);
        } else if (!received.add(key)) {
            duplicates.incrementAndGet();
        }
        return ConsumeResult.SUCCESS;
    }

    private void fail(String reason) {
        failures.incrementAndGet();
        error = reason.replaceAll("[^ -~]|[\"\\\\]", " ");
    }

    private String counts() {
        long missing = acknowledged.stream().filter(key -> !received.contains(key)).count();
        return "{\"sending\":" + (acknowledged.size() < wanted) + ",\"acknowledged\":" + acknowledged.size()
            + ",\"received\":" + received.size() + ",\"missing\":" + missing + ",\"duplicates\":" + duplicates
            + ",\"failures\":" + failures + ",\"errors\":[\"" + error + "\"]}";
    }

    private static void say(String json) {
        System.out.println(MARK + json);
        System.out.flush();
    }
}
