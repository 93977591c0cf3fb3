"""What families write with: text, values, masks, memory and thread indices of one version."""
