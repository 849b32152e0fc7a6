// Netty's HashedWheelTimer (tick of 10 ms, 512 slots, as it comes) under the rows of the benchmark.
//
//   java NettyTimers schedule|cancel|reschedule COUNT     ns of the caller's thread for each timer
//   java NettyTimers lateness COUNT                       us, at 10,000 a second
//   java NettyTimers idle COUNT                           % of a core with COUNT timeouts pending
//
// Prints lines `name value`. Of the calls only the processor time of the caller is counted: filing
// the timer in its slot is done by the thread of the wheel and comes on top. Each is repeated until
// the compiler has done its work, and the best repetition counts.
import com.sun.management.OperatingSystemMXBean;
import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

public final class NettyTimers {
  private static final TimerTask NOTHING = timeout -> {};
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

  private static HashedWheelTimer timer() {
    return new HashedWheelTimer(10, TimeUnit.MILLISECONDS, 512);
  }

  private static void print(String name, double value) {
    System.out.printf(java.util.Locale.ROOT, "%s %.6f%n", name, value);
  }

  private static long[] weekDelaysMs(int count, Random random) {
    long[] delays = new long[count];
    for (int i = 0; i < count; i++) {
      delays[i] = 5_000 + (long) (random.nextDouble() * 7 * 24 * 3_600_000L);
    }
    return delays;
  }

  private static int[] randomOrder(int count, Random random) {
    int[] order = new int[count];
    for (int i = 0; i < count; i++) {
      order[i] = i;
    }
    for (int i = count - 1; i > 0; i--) {
      int other = random.nextInt(i + 1);
      int saved = order[i];
      order[i] = order[other];
      order[other] = saved;
    }
    return order;
  }

  private static double pass(String row, long[] delays, int[] order) throws InterruptedException {
    int count = delays.length;
    HashedWheelTimer wheel = timer();
    Timeout[] timeouts = new Timeout[count];
    long before = THREADS.getCurrentThreadCpuTime();
    for (int i = 0; i < count; i++) {
      timeouts[i] = wheel.newTimeout(NOTHING, delays[i], TimeUnit.MILLISECONDS);
    }
    if (!row.equals("schedule")) {
      Thread.sleep(20 + count / 5_000);  // The wheel files 100,000 a tick.
      before = THREADS.getCurrentThreadCpuTime();
      for (int i = 0; i < count; i++) {
        int which = order[i];
        timeouts[which].cancel();
        if (row.equals("reschedule")) {
          long delay = 4_000 + (delays[which] - 4_000) * (i % 97) / 97;
          timeouts[which] = wheel.newTimeout(NOTHING, delay, TimeUnit.MILLISECONDS);
        }
      }
    }
    double ns = (double) (THREADS.getCurrentThreadCpuTime() - before) / count;
    wheel.stop();
    return ns;
  }

  private static void calls(String row, int count) throws InterruptedException {
    Random random = new Random(42);
    long[] delays = weekDelaysMs(count, random);
    int[] order = randomOrder(count, random);
    double best = Double.MAX_VALUE;
    for (int i = 0; i < (count <= 10_000 ? 100 : 7); i++) {
      best = Math.min(best, pass(row, delays, order));
    }
    print("value", best);
  }

  private static void lateness(int count) throws InterruptedException {
    HashedWheelTimer wheel = timer();
    long[] latenessNs = new long[count];
    AtomicInteger done = new AtomicInteger();
    long first = System.nanoTime() + 1_000_000_000L;
    for (int i = 0; i < count; i++) {
      long due = first + i * 100_000L;
      wheel.newTimeout(
          timeout -> latenessNs[done.getAndIncrement()] = System.nanoTime() - due,
          due - System.nanoTime(),
          TimeUnit.NANOSECONDS);
    }
    while (done.get() < count) {
      Thread.sleep(10);
    }
    wheel.stop();
    Arrays.sort(latenessNs);
    for (String prefix : new String[] {"handover.", "start."}) {
      print(prefix + "p50", latenessNs[count / 2] / 1e3);
      print(prefix + "p99", latenessNs[count * 99 / 100] / 1e3);
      print(prefix + "p999", latenessNs[(int) (count * 999L / 1000)] / 1e3);
      print(prefix + "max", latenessNs[count - 1] / 1e3);
    }
    print("earliest_us", latenessNs[0] / 1e3);
    print("value", latenessNs[count / 2] / 1e3);
  }

  private static void idle(int count) throws InterruptedException {
    HashedWheelTimer wheel = timer();
    for (int i = 0; i < count; i++) {
      wheel.newTimeout(NOTHING, 7_200_000L + 5L * i, TimeUnit.MILLISECONDS);
    }
    Thread.sleep(3_000);
    OperatingSystemMXBean system =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    long cpu = system.getProcessCpuTime();
    long start = System.nanoTime();
    Thread.sleep(5_000);
    print("value", 100.0 * (system.getProcessCpuTime() - cpu) / (System.nanoTime() - start));
    wheel.stop();
  }

  public static void main(String[] arguments) throws InterruptedException {
    int count = Integer.parseInt(arguments[1]);
    switch (arguments[0]) {
      case "lateness":
        lateness(count);
        break;
      case "idle":
        idle(count);
        break;
      default:
        calls(arguments[0], count);
    }
    System.exit(0);
  }
}
