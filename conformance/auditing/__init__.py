"""Would the suite notice a mistake? Every known mistake is checked as if it were a subject."""
