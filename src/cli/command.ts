/** Command-line options, `--help`, the port, and errors without a stack trace, for every command of this project. */
import { once } from "node:events";
import { connect } from "node:net";
import { parseArgs, type ParseArgsOptionDescriptor, type ParseArgsOptionsConfig } from "node:util";

interface CommandOption extends ParseArgsOptionDescriptor {
  /** The placeholder for the value in `--help`, such as `port`. */
  readonly value?: string;
  readonly about?: string;
}

export type CommandOptions = ParseArgsOptionsConfig & Readonly<Record<string, CommandOption>>;

/** A problem that the user can fix. Commands print its message without a stack trace. */
export class CommandError extends Error {}

/** Prints the message to stderr and ends the process with exit code 1. */
export function exitWithError(message: string): never {
  console.error(message);
  process.exit(1);
}

/** Runs a command. A `CommandError` prints its message and ends the process with exit code 1. */
export async function runCommand(run: () => void | Promise<void>): Promise<void> {
  try {
    await run();
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    exitWithError(error.message);
  }
}

/** Returns the option values of the command line. Prints the help text and ends the process on `--help`. */
// oxlint-disable-next-line typescript/explicit-function-return-type -- inferred from the options
export function parseCommandLine<const O extends CommandOptions>(options: O, command = commandLine(process.env)) {
  return parseWords(options, command, null).values;
}

/**
 * Like `parseCommandLine`, for a command that also accepts one argument. The argument is undefined if it is missing.
 * @param placeholder the argument in the help text, such as `<version>`
 */
// oxlint-disable-next-line typescript/explicit-function-return-type -- inferred from the options
export function parseArgument<const O extends CommandOptions>(placeholder: string, options: O) {
  return parseWords(options, `${commandLine(process.env)} ${placeholder}`, placeholder);
}

// oxlint-disable-next-line typescript/explicit-function-return-type -- inferred from the options
function parseWords<const O extends CommandOptions>(options: O, usage: string, placeholder: string | null) {
  if (process.argv.slice(2).some(isHelp)) {
    console.log(helpOf(options, usage));
    process.exit(0);
  }
  try {
    const allowPositionals = placeholder !== null;
    const { values, positionals, tokens } = parseArgs({ options, allowPositionals, tokens: true });
    rejectRepeated(options, tokens);
    const [argument, ...others] = positionals;
    if (others.length > 0) throw new Error(`Expected one ${placeholder}, got "${positionals.join(" ")}"`);
    return { values, argument };
  } catch (error) {
    const names = Object.keys(options).map((name) => `--${name}`);
    const expected = names.length > 0 ? `one of ${names.join(", ")}` : "no options";
    return exitWithError(`${messageOf(error)}\nExpected ${expected}.`);
  }
}

interface OptionToken {
  readonly kind: string;
  readonly name?: string;
  readonly value?: string | undefined;
}

/** Rejects repeated options: `parseArgs` of Node.js would silently take the last value. */
function rejectRepeated(options: CommandOptions, tokens: readonly OptionToken[]): void {
  const first = new Map<string, string>();
  for (const { name, value } of tokens) {
    if (name === undefined || value === undefined || options[name]?.multiple === true) continue;
    const before = first.get(name);
    if (before !== undefined) {
      exitWithError(`--${name}: expected one value, got "${before}" and "${value}"`);
    }
    first.set(name, value);
  }
}

export const isHelp = (word: string): boolean => word === "--help" || word === "-h";

/** The usage line and one line for each option. */
export function helpOf(options: CommandOptions, command = commandLine(process.env)): string {
  const rows = [
    ...Object.entries(options).map(([name, option]) => [usageOf(name, option), aboutOf(option)]),
    ["-h, --help", "Show this help."],
  ];
  const width = Math.max(...rows.map(([usage = ""]) => usage.length));
  const lines = rows.map(([usage = "", about = ""]) => `  ${usage.padEnd(width)}  ${about}`.trimEnd());
  return [`Usage: ${command} [options]`, "", "Options:", ...lines].join("\n");
}

function usageOf(name: string, { type, short, value = "value" }: CommandOption): string {
  const names = short === undefined ? `--${name}` : `-${short}, --${name}`;
  return type === "string" ? `${names} <${value}>` : names;
}

function aboutOf({ about = "", default: fallback, multiple }: CommandOption): string {
  const notes = [
    ...(fallback === undefined || typeof fallback === "boolean" ? [] : [`default: ${fallback.toString()}`]),
    ...(multiple === true ? ["repeatable"] : []),
  ];
  return notes.length > 0 ? `${about} (${notes.join(", ")})`.trimStart() : about;
}

/** The npm command that runs the current script with options. npm sets its name in the environment. */
export function commandLine(env: Readonly<Record<string, string | undefined>>): string {
  const script = env["npm_lifecycle_event"];
  if (script === undefined) return "node <script>";
  return script === "start" ? "npm start --" : `npm run ${script} --`;
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const highestPort = 65_535;
const triedPorts = 100;
/** wrangler listens on both addresses, and a browser may choose either for `localhost`. */
const hosts = ["127.0.0.1", "::1"] as const;

/** @throws CommandError unless the text is a port that is free on both addresses of `localhost` */
export async function readFreePort(text: string): Promise<number> {
  const port = readPort(text);
  if (await isFree(port)) return port;
  const other = await freePortAfter(port);
  const advice = other === null ? "" : `, or choose another port: --port ${other}`;
  throw new CommandError(`Port ${port} is in use. Stop the program that uses it${advice}`);
}

/** @throws CommandError unless the text is an integer from 1 to 65535 */
export function readPort(text: string): number {
  const port = /^[1-9]\d{0,4}$/.test(text) ? Number(text) : 0;
  if (port >= 1 && port <= highestPort) return port;
  throw new CommandError(`--port: expected a port from 1 to ${highestPort}, got "${text}"`);
}

/** The next free port, or null if the next 100 are taken. The search continues at 8787 after 65535. */
async function freePortAfter(port: number): Promise<number | null> {
  for (let step = 1; step <= triedPorts; step++) {
    const next = port + step;
    const candidate = next <= highestPort ? next : 8_786 + next - highestPort;
    // oxlint-disable-next-line no-await-in-loop -- the first free one is enough
    if (await isFree(candidate)) return candidate;
  }
  return null;
}

async function isFree(port: number): Promise<boolean> {
  const answers = await Promise.all(hosts.map((host) => isListening(host, port)));
  return !answers.includes(true);
}

/** Whether a program accepts connections at this address. */
async function isListening(host: string, port: number): Promise<boolean> {
  const socket = connect({ host, port });
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
