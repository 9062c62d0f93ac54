from corollary.cli import main

main()
