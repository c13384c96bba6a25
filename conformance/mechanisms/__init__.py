"""From a YAML file to a `Mechanism`: read, validated, frozen, and evaluated."""
