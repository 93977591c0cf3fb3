"""The second layer of RDMA policy on this node: rules and a classifier on the pods' links."""
