"""What the paper prints, and what was tried of what it leaves open."""
