export declare function resolve(...pathSegments: string[]): string;
