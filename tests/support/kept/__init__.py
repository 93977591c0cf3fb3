"""Results of pure functions that one run of the tests computes and later runs read again."""
