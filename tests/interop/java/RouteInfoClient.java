import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.impl.FindBrokerResult;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.impl.producer.DefaultMQProducerImpl;
import org.apache.rocketmq.client.impl.producer.TopicPublishInfo;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/**
 * RouteInfoClient NAMESRV...: one started producer for each name server, and what it knows of routes.
 *
 * <pre>
 *   publish TOPIC   as before a message of the topic is sent
 *   update          ask for all topics in use, and drop brokers that are in no route, as happens each 30 s
 * </pre>
 *
 * Each is answered, after a mark, with a list of what each producer then knows:
 * {publish: {topic: {order, queues: [[broker name, id], ...]}}, addrs: {broker name: {id: address}},
 * found: {broker name: {publish: address, "ID only": [address, slave], "ID any": ...}}}.
 */
public final class RouteInfoClient {
    private static final String MARK = "##";
    private static final long HIGHEST_ID = 3;
    private static final int NEVER_MS = 1_000_000_000;

    private final DefaultMQProducerImpl producer;
    private final MQClientInstance client;

    @SuppressWarnings("deprecation")
    private RouteInfoClient(String namesrv, int number) throws Exception {
        DefaultMQProducer started = new DefaultMQProducer("group" + number);
        started.setNamesrvAddr(namesrv);
        // Of its own, or producers of one process would share a client.
        started.setInstanceName("instance" + number);
        started.setPollNameServerInterval(NEVER_MS);
        started.setHeartbeatBrokerInterval(NEVER_MS);
        started.setVipChannelEnabled(false);
        started.start();
        producer = started.getDefaultMQProducerImpl();
        client = (MQClientInstance) member(producer, "mQClientFactory");
    }

    public static void main(String[] args) throws Exception {
        List<RouteInfoClient> clients = new ArrayList<>();
        for (String namesrv : args) {
            clients.add(new RouteInfoClient(namesrv, clients.size()));
        }
        say("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            List<Object> known = new ArrayList<>();
            for (RouteInfoClient each : clients) {
                each.obey(line.split(" "));
                known.add(each.known());
            }
            say(RemotingSerializable.toJson(known, false));
        }
        Runtime.getRuntime().halt(0);
    }

    private void obey(String[] words) throws ReflectiveOperationException {
        if (words[0].equals("publish")) {
            Method find = DefaultMQProducerImpl.class.getDeclaredMethod("tryToFindTopicPublishInfo", String.class);
            find.setAccessible(true);
            find.invoke(producer, words[1]);
        } else if (words[0].equals("update")) {
            try {
                client.updateTopicRouteInfoFromNameServer();
            } catch (RuntimeException error) {
                // As its scheduler does: a route that no queues can be made of ends this round, and nothing else.
                error.printStackTrace();
            }
            Method clean = MQClientInstance.class.getDeclaredMethod("cleanOfflineBroker");
            clean.setAccessible(true);
            clean.invoke(client);
        } else {
            throw new IllegalArgumentException("no such command: " + words[0]);
        }
    }

    private Object known() throws ReflectiveOperationException {
        Map<String, Object> publish = new TreeMap<>();
        for (Map.Entry<?, ?> entry : ((Map<?, ?>) member(producer, "topicPublishInfoTable")).entrySet()) {
            TopicPublishInfo info = (TopicPublishInfo) entry.getValue();
            List<Object> queues = new ArrayList<>();
            for (MessageQueue queue : info.getMessageQueueList()) {
                queues.add(Arrays.asList(queue.getBrokerName(), queue.getQueueId()));
            }
            Map<String, Object> told = new TreeMap<>();
            told.put("order", info.isOrderTopic());
            told.put("queues", queues);
            publish.put((String) entry.getKey(), told);
        }
        Map<String, Object> addrs = new TreeMap<>();
        Map<String, Object> found = new TreeMap<>();
        for (Map.Entry<?, ?> entry : ((Map<?, ?>) member(client, "brokerAddrTable")).entrySet()) {
            String name = (String) entry.getKey();
            Map<String, Object> ofName = new TreeMap<>();
            ((Map<?, ?>) entry.getValue()).forEach((id, addr) -> ofName.put(String.valueOf(id), addr));
            addrs.put(name, ofName);
            found.put(name, found(name));
        }
        Map<String, Object> known = new TreeMap<>();
        known.put("publish", publish);
        known.put("addrs", addrs);
        known.put("found", found);
        return known;
    }

    private Map<String, Object> found(String name) {
        Map<String, Object> found = new TreeMap<>();
        found.put("publish", client.findBrokerAddressInPublish(name));
        for (long id = 0; id <= HIGHEST_ID; id++) {
            for (boolean only : new boolean[] {true, false}) {
                FindBrokerResult result = client.findBrokerAddressInSubscribe(name, id, only);
                found.put(id + (only ? " only" : " any"),
                    result == null ? null : Arrays.asList(result.getBrokerAddr(), result.isSlave()));
            }
        }
        return found;
    }

    private static Object member(Object of, String name) throws ReflectiveOperationException {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
    }

    private static void say(String json) {
        System.out.println(MARK + json);
        System.out.flush();
    }
}
