import org.codelibs.opensearch.runner.OpenSearchRunner;

/**
 * One node of a cluster in a process of its own, until its standard input ends.
 *
 * Arguments: the folder of the node, its name, its ports for HTTP and for other nodes, and the names
 * and the addresses of all nodes, with commas between.
 */
public final class Node {
    public static void main(String[] arguments) throws Exception {
        OpenSearchRunner runner = new OpenSearchRunner();
        runner.onBuild((number, settings) -> {
            settings.put("node.name", arguments[1]);
            settings.put("network.host", "127.0.0.1");
            settings.put("http.port", arguments[2]);
            settings.put("transport.port", arguments[3]);
            settings.putList("cluster.initial_cluster_manager_nodes", arguments[4].split(","));
            settings.putList("discovery.seed_hosts", arguments[5].split(","));
            // A full disk of the machine would otherwise make the indexes read-only.
            settings.put("cluster.routing.allocation.disk.threshold_enabled", false);
            // A node that does not answer is noticed after 3 seconds, not after 30.
            settings.put("cluster.fault_detection.follower_check.timeout", "1s");
            settings.put("cluster.fault_detection.leader_check.timeout", "1s");
        });
        runner.build(OpenSearchRunner.newConfigs()
            .basePath(arguments[0]).clusterName("ratecard").numOfNode(1).useLogger());
        while (System.in.read() >= 0) {
            // The parent keeps its end open for as long as it lives.
        }
        System.exit(0);
    }
}
