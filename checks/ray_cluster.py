"""A Ray cluster on this machine, for checks: prints its address, then obeys its standard input.

python ray_cluster.py NODES CPUS       `add` starts one more node, `remove` kills the last one's raylet
"""

import sys
from typing import Any

from ray.cluster_utils import Cluster

count, cpus = int(sys.argv[1]), float(sys.argv[2])
cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": cpus})
nodes = [cluster.add_node(num_cpus=cpus) for _ in range(count - 1)]
cluster.wait_for_nodes()
print(cluster.address, flush=True)
for line in sys.stdin:
    if line.strip() == "add":
        nodes.append(cluster.add_node(num_cpus=cpus))
    else:
        cluster.remove_node(nodes.pop(), allow_graceful=False)
    print("done", flush=True)
cluster.shutdown()
