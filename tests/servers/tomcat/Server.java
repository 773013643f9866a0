// Embedded Tomcat with its default settings, which answers every request with what it read.
//
// Prints its version and its port, then serves until its standard input ends.

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.catalina.startup.Tomcat;
import org.apache.catalina.util.ServerInfo;

public class Server {
    static String field(String name, String value, Charset charset) {
        if (value == null) {
            return "";
        }
        return name + "=" + HexFormat.of().formatHex(value.getBytes(charset)) + ",";
    }

    static class Answer extends HttpServlet {
        @Override
        protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
            String info = request.getPathInfo();
            String read = "Routed: "
                + field("method", request.getMethod(), StandardCharsets.ISO_8859_1)
                + field("target", request.getRequestURI(), StandardCharsets.ISO_8859_1)
                // Without path parameters, decoded: what servlets are mapped by.
                + field("path", request.getServletPath() + (info == null ? "" : info), StandardCharsets.UTF_8)
                + ";";
            if (request.getMethod().equals("HEAD")) {
                response.setHeader("Routed", read.substring("Routed: ".length()));
            }
            response.setContentLength(read.length());
            response.getOutputStream().write(read.getBytes(StandardCharsets.US_ASCII));
        }
    }

    public static void main(String[] arguments) throws Exception {
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(arguments[0]);
        tomcat.setHostname("127.0.0.1");
        tomcat.setPort(0);
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        // Else an answer to what cannot be read depends on the connection before it.
        tomcat.getConnector().setProperty("processorCache", "0");
        var context = tomcat.addContext("", null);
        Tomcat.addServlet(context, "answer", new Answer()).addMapping("/*");
        tomcat.start();
        System.out.println(ServerInfo.getServerNumber() + " " + tomcat.getConnector().getLocalPort());
        while (System.in.read() >= 0) {
        }
        System.exit(0);
    }
}
