"""The console's login: who may open it, what each of them may see and do, and from where."""
