"""What a project, a credential or an address may use."""
