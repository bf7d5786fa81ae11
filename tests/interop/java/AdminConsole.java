import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Runs each line of standard input as one mqadmin command, all in one JVM; a mark follows the output of each. */
public final class AdminConsole {
    private static final String MARK = "##";

    private AdminConsole() {
    }

    public static void main(String[] args) throws Exception {
        System.out.println(MARK);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            // mqadmin keeps the address of -n here, where the next command would find it.
            System.clearProperty("rocketmq.namesrv.addr");
            try {
                MQAdminStartup.main0(line.trim().split(" +"), null);
            } catch (Throwable error) {
                error.printStackTrace(System.out);
            }
            System.out.println();
            System.out.println(MARK);
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
