"""The console's login: who may open the console from where, and what each user may see and do."""
