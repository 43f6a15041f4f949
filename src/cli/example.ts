/** `npm run example -- <name>`: runs an example of `docs/examples` in local workerd, with secrets of its own. */
import { randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CommandError, parseArgument, readFreePort, runCommand } from "./command.ts";
import { configurationSource } from "./configuration-source.ts";
import { startDemoOrigin } from "./demo.ts";
import { LocalWorker, stopTogether } from "./local-worker.ts";
import { readSettings } from "./settings.ts";

const examples = join(import.meta.dirname, "../../docs/examples");

const { values, argument } = parseArgument("<name>", {
  port: { type: "string", default: "8787", value: "port", about: "The port to listen on." },
});

await runCommand(run);

async function run(): Promise<void> {
  const folder = join(examples, exampleName());
  const port = await readFreePort(values.port);
  const source = configurationSource({ config: join(folder, "wrangler.toml") });
  const { wrangler, vars, secrets, requiredSecrets } = readSettings(source);
  const origin = await startDemoOrigin();
  // Each run starts at zero, so that it prints what the README shows.
  const persistTo = mkdtempSync(join(tmpdir(), "headgate-example-"));
  const worker = new LocalWorker({ port, environment: "", persistTo });
  stopTogether(worker, () => {
    origin.close();
    rmSync(persistTo, { recursive: true, force: true });
  });
  const generated = Object.fromEntries(requiredSecrets.map((name) => [name, randomBytes(24).toString("base64url")]));
  await worker.run({
    wrangler,
    variables: { ORIGIN: origin.url, ...vars, ...generated, ...secrets },
    secretNames: requiredSecrets,
  });
  const readme = readFileSync(join(folder, "README.md"), "utf8");
  console.log(readme.replaceAll("localhost:8787", `localhost:${port}`));
  console.log(`Running at http://localhost:${port}. Stop with Ctrl-C.`);
}

/** @throws CommandError without the name of an example */
function exampleName(): string {
  const names = readdirSync(examples, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
  if (argument !== undefined && names.includes(argument)) return argument;
  const got = argument === undefined ? "none" : `"${argument}"`;
  throw new CommandError(`Expected the name of an example (${names.join(", ")}), got ${got}.`);
}
