"""Text as numbers and back: texts and dialogs from files, vocabularies, tokenizers."""
