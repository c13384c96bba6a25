"""Would the suite notice? Every known mistake is checked as if it were a subject."""
