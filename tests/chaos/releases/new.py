from tests.chaos.releases import make

forge = make()


@forge.job()
async def greet(first_name: str, last_name: str) -> str:
    return f"new {first_name} {last_name}"
