"""Test programs that the original ran on recorded inputs."""
