"""The parts that systems are made of: agent settings, the tool loop, the chat adapter, media."""
