"""What an application has inside it to know where its topics are."""
