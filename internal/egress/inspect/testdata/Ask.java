import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** Asks for an address in both ways that Java has. */
public class Ask {
    public static void main(String[] args) throws IOException, InterruptedException {
        URI uri = URI.create(args[0]);
        HttpResponse<String> answer = HttpClient.newHttpClient()
                .send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofString());
        System.out.println("client " + answer.version() + " " + answer.statusCode() + " " + answer.body());
        HttpURLConnection old = (HttpURLConnection) uri.toURL().openConnection();
        System.out.println("old " + old.getResponseCode() + " " + new String(old.getInputStream().readAllBytes()));
    }
}
