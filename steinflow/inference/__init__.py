"""The only loop: it runs any method on any target."""
