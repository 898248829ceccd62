import java.util.Map;
import javax.persistence.*;

/** Hibernate OGM with a sequence: java HibernateOgm HOST:PORT ROUNDS PAUSE_MS. */
public class HibernateOgm {
  @Entity
  @Table(name = "shipments")
  public static class Shipment {
    @Id
    @GeneratedValue(strategy = GenerationType.TABLE)
    public Long id;
    public int part;
  }

  public static void main(String[] words) throws Exception {
    var factory = Persistence.createEntityManagerFactory("library", Map.of("hibernate.ogm.datastore.host", words[0]));
    for (int n = 0; n < Integer.parseInt(words[1]); n++) {
      var manager = factory.createEntityManager();
      manager.getTransaction().begin();
      var shipment = new Shipment();
      shipment.part = n % 5;
      manager.persist(shipment);
      manager.getTransaction().commit();
      manager.close();
      Thread.sleep((long) (Integer.parseInt(words[2]) * (0.5 + Math.random())));
    }
    factory.close();
    System.out.println("hibernate_ogm ran");
  }
}
