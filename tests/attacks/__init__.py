"""The catalogue of attacks: what cheats try, and which check or signal must find each."""
