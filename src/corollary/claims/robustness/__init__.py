"""Attacks, certificates, and networks that withstand."""
