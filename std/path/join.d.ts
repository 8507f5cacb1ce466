export declare function join(path?: string | URL, ...paths: string[]): string;
