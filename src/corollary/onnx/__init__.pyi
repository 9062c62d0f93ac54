from .run import run as run
