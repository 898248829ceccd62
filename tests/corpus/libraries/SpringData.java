import static org.springframework.data.mongodb.core.FindAndModifyOptions.options;
import static org.springframework.data.mongodb.core.query.Criteria.where;
import static org.springframework.data.mongodb.core.query.Query.query;

import com.mongodb.client.MongoClients;
import org.springframework.data.annotation.Id;
import org.springframework.data.mongodb.core.MongoTemplate;
import org.springframework.data.mongodb.core.mapping.Document;
import org.springframework.data.mongodb.core.query.Update;

/** The sequence of the tutorials for Spring Data MongoDB: java SpringData URI ROUNDS PAUSE_MS. */
public class SpringData {
  @Document("database_sequences")
  static class DatabaseSequence {
    @Id String id;
    long seq;
  }

  @Document("users")
  static class User {
    @Id long id;
    int group;
  }

  public static void main(String[] words) throws Exception {
    try (var client = MongoClients.create(words[0])) {
      var template = new MongoTemplate(client, "lib_spring_data");
      for (int n = 0; n < Integer.parseInt(words[1]); n++) {
        var sequence = template.findAndModify(query(where("_id").is("users_sequence")), new Update().inc("seq", 1),
            options().returnNew(true).upsert(true), DatabaseSequence.class);
        var user = new User();
        user.id = sequence.seq;
        user.group = n % 5;
        template.insert(user);
        Thread.sleep((long) (Integer.parseInt(words[2]) * (0.5 + Math.random())));
      }
    }
    System.out.println("spring_data ran");
  }
}
