"""A Ray cluster of two nodes on this machine, two cores each; `kill` on standard input kills the second raylet."""

import sys

from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
other = cluster.add_node(num_cpus=2)
cluster.wait_for_nodes()
print(cluster.address, flush=True)
for line in sys.stdin:
    if line.strip() == "kill":
        cluster.remove_node(other, allow_graceful=False)
        print("killed", flush=True)
cluster.shutdown()
