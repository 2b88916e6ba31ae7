"""The commands of ``python -m llm_anatomy``; each module is imported when its command is used."""
