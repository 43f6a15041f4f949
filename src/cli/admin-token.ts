/** The admin API that the options of a command name, and where its token comes from. */
import { readPath } from "../policy/vars/admin.ts";
import { readAdminTokens } from "../policy/vars/secrets.ts";
import { VariableReader } from "../policy/vars/variables.ts";
import { type AdminApi, isLocalUrl, serverUrl } from "./admin-api.ts";
import { CommandError } from "./command.ts";
import { configurationSource, type SourceValues } from "./configuration-source.ts";
import { localVariables, readSettings } from "./settings.ts";
import { tokenVariable } from "./admin-options.ts";

interface AdminValues extends SourceValues {
  readonly url: string;
  readonly token?: string | undefined;
}

/** @throws CommandError when the URL is invalid or there is no token */
export function adminApiOf(values: AdminValues): AdminApi {
  const server = serverUrl(values.url);
  const variables = localVariables(readSettings(configurationSource(values)));
  const path = readPath(new VariableReader(variables, () => undefined), "ADMIN_PATH");
  const token = values.token ?? process.env[tokenVariable] ?? localToken(server, variables);
  return { url: `${server.origin}${path}/api`, token };
}

/** The first token of the local secrets that may read. It is never sent to another machine. */
function localToken(server: URL, variables: Readonly<Record<string, unknown>>): string {
  const tokens = readAdminTokens(new VariableReader(variables, () => undefined));
  const token = tokens.find(({ may }) => may.has("read"));
  if (!isLocalUrl(server)) {
    throw new CommandError(
      `No token for ${server.origin}: expected --token or ${tokenVariable}, since tokens of .dev.vars are sent to this machine only.`,
    );
  }
  if (token !== undefined) return token.token;
  throw new CommandError(
    `No token: expected --token, ${tokenVariable}, or a token with the right read in ADMIN_TOKENS of .dev.vars, which npm start generates.`,
  );
}
