"""The second layer of RDMA policy on this node: nftables rules and a classifier."""
