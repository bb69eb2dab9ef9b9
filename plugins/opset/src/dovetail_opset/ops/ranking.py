"""Greatest, least and non-zero elements by place."""
