import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collection;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs each line of standard input as one mqadmin command, all in one JVM; a mark follows the output of each.
 * Tabs separate the arguments; an empty line is mqadmin without arguments, which lists its commands.
 */
public final class AdminConsole {
    private static final String MARK = "##";
    private static final long LOOK_MS = 20;

    private AdminConsole() {
    }

    public static void main(String[] args) throws Exception {
        // One stream, so that what a command prints and how it failed stay in order.
        System.setErr(System.out);
        Thread commands = Thread.currentThread();
        Thread hurry = new Thread(() -> shortenShutdownOf(commands), "hurry");
        hurry.setDaemon(true);
        hurry.start();
        System.out.println(MARK);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            // mqadmin keeps the address of -n here, where the next command would find it.
            System.clearProperty("rocketmq.namesrv.addr");
            forgetCommands();
            try {
                MQAdminStartup.main0(line.isEmpty() ? new String[0] : line.split("\t", -1), null);
            } catch (Throwable error) {
                error.printStackTrace(System.out);
            }
            System.out.println();
            System.out.println(MARK);
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    /** mqadmin makes its commands anew with each main, and some keep a client that they have shut down. */
    private static void forgetCommands() throws ReflectiveOperationException {
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (Collection.class.isAssignableFrom(field.getType())) {
                field.setAccessible(true);
                ((Collection<?>) field.get(null)).clear();
            }
        }
    }

    /** A client that shuts down mostly waits for 3 s for this thread, which looks that seldom whether it shall end. */
    private static void shortenShutdownOf(Thread commands) {
        while (true) {
            try {
                Thread.sleep(LOOK_MS);
            } catch (InterruptedException error) {
                return;
            }
            boolean shutsDown = Arrays.stream(commands.getStackTrace())
                .anyMatch(frame -> frame.getClassName().endsWith(".ServiceThread")
                    && frame.getMethodName().equals("shutdown"));
            if (shutsDown) {
                Thread.getAllStackTraces().keySet().stream()
                    .filter(thread -> thread.getName().equals("NettyEventExecutor"))
                    .forEach(Thread::interrupt);
            }
        }
    }
}
