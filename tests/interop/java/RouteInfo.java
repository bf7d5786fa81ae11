import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.impl.FindBrokerResult;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.impl.producer.TopicPublishInfo;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/**
 * What the client makes of routes. Each line of standard input is a topic, its route and an older one, separated by
 * tabs; each answer, after a mark, is JSON:
 *
 * <pre>
 *   publish, subscribe  {order, queues: [[broker name, id], ...]}, or {error: class of the exception}
 *   endpoints           [[broker name, id, broker that holds it], ...] of a static topic
 *   changed             whether the client takes the first route for a change of the second
 *   found               broker name -> {publish: address, "ID only": [address, slave], "ID any": ...}
 * </pre>
 *
 * The classes of routes moved between 4.x and 5.x, so they are reached by name.
 */
public final class RouteInfo {
    private static final String MARK = "##";
    private static final long HIGHEST_ID = 4;

    private final MQClientInstance client = new MQClientInstance(new ClientConfig(), 0, "RouteInfo");
    private final Class<?> routeClass = firstClass(
        "org.apache.rocketmq.remoting.protocol.route.TopicRouteData",
        "org.apache.rocketmq.common.protocol.route.TopicRouteData");
    private final Method publishInfo =
        MQClientInstance.class.getMethod("topicRouteData2TopicPublishInfo", String.class, routeClass);
    private final Method subscribeInfo =
        MQClientInstance.class.getMethod("topicRouteData2TopicSubscribeInfo", String.class, routeClass);

    private RouteInfo() throws ReflectiveOperationException {
    }

    public static void main(String[] args) throws Exception {
        RouteInfo driver = new RouteInfo();
        say("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t");
            say(RemotingSerializable.toJson(driver.answer(words[0], words[1], words[2]), false));
        }
        Runtime.getRuntime().halt(0);
    }

    private Map<String, Object> answer(String topic, String text, String olderText) throws Exception {
        Map<String, Object> answer = new TreeMap<>();
        // Each is given a route of its own: the first sorts what it is given.
        answer.put("publish", guarded(() -> published(topic, decode(text))));
        answer.put("subscribe", guarded(() -> subscribed(topic, decode(text))));
        answer.put("endpoints", endpoints(topic, decode(text)));
        answer.put("changed", changed(decode(olderText), decode(text)));
        answer.put("found", found(decode(text)));
        return answer;
    }

    private Object published(String topic, Object route) throws ReflectiveOperationException {
        TopicPublishInfo info = (TopicPublishInfo) publishInfo.invoke(null, topic, route);
        return queues(info.isOrderTopic(), info.getMessageQueueList());
    }

    private Object subscribed(String topic, Object route) throws ReflectiveOperationException {
        List<MessageQueue> sorted = new ArrayList<>();
        for (Object queue : (Collection<?>) subscribeInfo.invoke(null, topic, route)) {
            sorted.add((MessageQueue) queue);
        }
        Collections.sort(sorted);
        return queues(false, sorted);
    }

    private static Object queues(boolean order, Collection<MessageQueue> queues) {
        List<Object> told = new ArrayList<>();
        for (MessageQueue queue : queues) {
            told.add(Arrays.asList(queue.getBrokerName(), queue.getQueueId()));
        }
        Map<String, Object> answer = new TreeMap<>();
        answer.put("order", order);
        answer.put("queues", told);
        return answer;
    }

    private Object endpoints(String topic, Object route) throws ReflectiveOperationException {
        List<Object> told = new ArrayList<>();
        Class<?> metadata;
        try {
            metadata = Class.forName("org.apache.rocketmq.remoting.rpc.ClientMetadata");
        } catch (ClassNotFoundException of4x) {
            return told;
        }
        Method method = metadata.getMethod("topicRouteData2EndpointsForStaticTopic", String.class, routeClass);
        for (Map.Entry<?, ?> entry : ((Map<?, ?>) method.invoke(null, topic, route)).entrySet()) {
            MessageQueue queue = (MessageQueue) entry.getKey();
            told.add(Arrays.asList(queue.getBrokerName(), queue.getQueueId(), entry.getValue()));
        }
        return told;
    }

    private boolean changed(Object older, Object route) throws ReflectiveOperationException {
        try {
            return (Boolean) routeClass.getMethod("topicRouteDataChanged", routeClass).invoke(route, older);
        } catch (NoSuchMethodException of4x) {
            Method method =
                MQClientInstance.class.getDeclaredMethod("topicRouteDataIsChange", routeClass, routeClass);
            method.setAccessible(true);
            return (Boolean) method.invoke(client, older, route);
        }
    }

    private Object found(Object route) throws ReflectiveOperationException {
        Field field = MQClientInstance.class.getDeclaredField("brokerAddrTable");
        field.setAccessible(true);
        Map<String, HashMap<Long, String>> known = new HashMap<>();
        for (Object row : (List<?>) routeClass.getMethod("getBrokerDatas").invoke(route)) {
            HashMap<Long, String> addrs = new HashMap<>();
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) get(row, "getBrokerAddrs")).entrySet()) {
                addrs.put((Long) entry.getKey(), (String) entry.getValue());
            }
            known.put((String) get(row, "getBrokerName"), addrs);
        }
        replace((Map<?, ?>) field.get(client), known);
        Map<String, Object> told = new TreeMap<>();
        for (String name : known.keySet()) {
            Map<String, Object> ofName = new TreeMap<>();
            ofName.put("publish", client.findBrokerAddressInPublish(name));
            for (long id = 0; id <= HIGHEST_ID; id++) {
                for (boolean only : new boolean[] {true, false}) {
                    FindBrokerResult result = client.findBrokerAddressInSubscribe(name, id, only);
                    ofName.put(id + (only ? " only" : " any"),
                        result == null ? null : Arrays.asList(result.getBrokerAddr(), result.isSlave()));
                }
            }
            told.put(name, ofName);
        }
        return told;
    }

    @SuppressWarnings("unchecked")
    private static void replace(Map<?, ?> table, Map<String, HashMap<Long, String>> content) {
        table.clear();
        ((Map<String, HashMap<Long, String>>) table).putAll(content);
    }

    private Object decode(String text) {
        return RemotingSerializable.decode(text.getBytes(StandardCharsets.UTF_8), routeClass);
    }

    private static Object get(Object from, String getter) throws ReflectiveOperationException {
        return from.getClass().getMethod(getter).invoke(from);
    }

    private static Object guarded(Computation computation) throws Exception {
        try {
            return computation.run();
        } catch (InvocationTargetException error) {
            return Collections.singletonMap("error", error.getCause().getClass().getSimpleName());
        }
    }

    private static Class<?> firstClass(String... names) throws ClassNotFoundException {
        for (String name : names) {
            try {
                return Class.forName(name);
            } catch (ClassNotFoundException elsewhere) {
                // it is under the next name
            }
        }
        throw new ClassNotFoundException(Arrays.toString(names));
    }

    private static void say(String json) {
        System.out.println(MARK + json);
        System.out.flush();
    }

    private interface Computation {
        Object run() throws ReflectiveOperationException;
    }
}
