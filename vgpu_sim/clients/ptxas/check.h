/* Checks PTX with Tessera's compiler, where there is a Python that has it. */
#pragma once

#include "options.h"
#include "text.h"

/* Run the compiler on the text. A mistake in the text ends the program. Returns a descriptor with
   the compiled container if the options request one, and -1 otherwise. */
int check_text(const struct options *options, const struct text *text);
