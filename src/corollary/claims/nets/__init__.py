"""Feed-forward networks: what they represent, and how they train."""
