"""The call stack of a program: frames that are saved, dispatch, linking."""
