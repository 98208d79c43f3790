"""What programs that test conversions import."""
