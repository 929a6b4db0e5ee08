namespace mixproof {}
