#include "outputs/document.h"

#include <stdio.h>

enum { COLUMN = 42, INDENT = 4 }; /* column of the colon; width of an indentation level */

static void tabs(const struct smi_document *document) {
  for (int i = 0; i < document->depth; i++) putchar('\t');
}

static void escaped(const char *value) {
  for (; *value; value++) switch (*value) {
      case '&':
        fputs("&amp;", stdout);
        break;
      case '<':
        fputs("&lt;", stdout);
        break;
      case '>':
        fputs("&gt;", stdout);
        break;
      default:
        putchar(*value);
    }
}

void smi_document_open(struct smi_document *document, const char *label, const char *tag) {
  if (document->xml && tag) {
    tabs(document);
    printf("<%s>\n", tag);
    document->depth++;
  } else if (!document->xml && label) {
    printf("%*s%s\n", INDENT * document->depth, "", label);
    document->depth++;
  }
}

void smi_document_close(struct smi_document *document, const char *tag) {
  document->depth--;
  if (!document->xml) return;
  tabs(document);
  printf("</%s>\n", tag);
}

void smi_document_value(struct smi_document *document, const char *label, const char *tag,
                        const char *value) {
  if (document->xml && tag) {
    tabs(document);
    printf("<%s>", tag);
    escaped(value);
    printf("</%s>\n", tag);
  } else if (!document->xml && label) {
    const int indent = INDENT * document->depth;
    printf("%*s%-*s: %s\n", indent, "", COLUMN - indent, label, value);
  }
}

void smi_document_none(struct smi_document *document, const char *label, const char *tag) {
  if (!document->xml) {
    if (label) smi_document_value(document, label, NULL, "None");
    return;
  }
  tabs(document);
  printf("<%s>\n", tag);
  tabs(document);
  printf("\tNone\n");
  tabs(document);
  printf("</%s>\n", tag);
}
