"""What the pages show, computed from the model by the operator's and the planner's own code."""
