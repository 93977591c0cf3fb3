/* A tree of named values, written as indented text or as XML. */
#pragma once

#include <stdbool.h>

struct smi_document {
  bool xml;
  int depth;
};

/* Labels are for text, tags for XML; NULL: not printed in that form. A group has no value. */
void smi_document_open(struct smi_document *document, const char *label, const char *tag);
void smi_document_close(struct smi_document *document, const char *tag);
void smi_document_value(struct smi_document *document, const char *label, const char *tag,
                        const char *value);

/* An empty group: "None" in both forms. */
void smi_document_none(struct smi_document *document, const char *label, const char *tag);
