"""Big data: problems, accuracy, rivals, resources."""
