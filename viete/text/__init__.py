"""Text as token ids and back: texts and dialogs from files, vocabularies, tokenizers."""
