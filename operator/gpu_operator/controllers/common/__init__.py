"""What every controller uses: the world as last seen, conditions, membership of nodes, offers."""
