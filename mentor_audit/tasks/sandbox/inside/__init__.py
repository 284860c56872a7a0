"""What runs inside the sandbox. Standard library only, relative imports only: the child sees this folder and nothing else of the package."""
