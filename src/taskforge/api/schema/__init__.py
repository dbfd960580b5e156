"""Values as callers of the API see them, and the document that describes them."""
